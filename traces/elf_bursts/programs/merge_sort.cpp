#include "program.h"

int main() {
    ARRAY(uint32_t, one, n);
    ARRAY(uint32_t, two, n);
    uint32_t *from = one, *to = two;
    for (long i = 0; i < n; i++) from[i] = static_cast<uint32_t>(draw());
    for (long width = 1; width < n; width *= 2) {
        for (long first = 0; first < n; first += 2 * width) {
            long middle = first + width < n ? first + width : n;
            long last = first + 2 * width < n ? first + 2 * width : n;
            long i = first, j = middle;
            for (long k = first; k < last; k++)
                to[k] = i < middle && (j >= last || from[i] <= from[j]) ? from[i++] : from[j++];
        }
        uint32_t* other = from;
        from = to;
        to = other;
    }
    return report(from[n / 2]);
}
