// The n-th Fibonacci number, in limbs of nine digits.
#include "program.h"

int main() {
    constexpr long limbs = n / 43 + 2;
    ARRAY(uint32_t, a, limbs);
    ARRAY(uint32_t, b, limbs);
    uint32_t *small = a, *large = b;
    large[0] = 1;
    for (long k = 2; k <= n; k++) {
        uint32_t carry = 0;
        for (long i = 0; i < limbs; i++) {
            uint32_t sum = small[i] + large[i] + carry;
            carry = sum >= 1000000000U;
            small[i] = carry ? sum - 1000000000U : sum;
        }
        uint32_t* other = small;
        small = large;
        large = other;
    }
    return report(large[0]);
}
