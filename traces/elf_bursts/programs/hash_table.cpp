// n keys in a table with linear probing, each looked up four times.
#include "program.h"

int main() {
    constexpr long slots = 2 * n + 1;
    ARRAY(uint64_t, keys, slots);
    for (long i = 0; i < n; i++) {
        uint64_t key = draw() | 1;
        long at = static_cast<long>(key % slots);
        while (keys[at] != 0) at = at + 1 < slots ? at + 1 : 0;
        keys[at] = key;
    }
    long found = 0;
    for (int round = 0; round < 4; round++) {
        state = 88172645463325252ULL;
        for (long i = 0; i < n; i++) {
            uint64_t key = draw() | 1;
            long at = static_cast<long>(key % slots);
            while (keys[at] != key) at = at + 1 < slots ? at + 1 : 0;
            found += at;
        }
    }
    return report(static_cast<double>(found));
}
