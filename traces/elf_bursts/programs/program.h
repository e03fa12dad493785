// What the programs share. SIZE, the size of the input, is given to the compiler. With HEAP the
// arrays are on the heap, and the sections of the ELF file do not know the size any more.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef HEAP
#define ARRAY(type, name, count) \
    type* const name = static_cast<type*>(calloc(static_cast<size_t>(count), sizeof(type)))
#else
#define ARRAY(type, name, count) static type name[count]
#endif

constexpr long n = SIZE;

// Marsaglia, "Xorshift RNGs" (2003).
static uint64_t state = 88172645463325252ULL;

static inline uint64_t draw() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static inline double draw_share() { return static_cast<double>(draw() >> 11) * 0x1p-53; }

// Output keeps the compiler from leaving out the work.
static inline int report(double result) { return printf("%.6g\n", result) < 0; }
