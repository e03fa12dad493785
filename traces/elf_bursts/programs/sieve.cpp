#include "program.h"

int main() {
    ARRAY(uint8_t, composite, n + 1);
    long primes = 0;
    for (long i = 2; i <= n; i++) {
        if (composite[i]) continue;
        primes++;
        for (long j = i * i; j <= n; j += i) composite[j] = 1;
    }
    return report(static_cast<double>(primes));
}
