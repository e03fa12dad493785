// n digits of pi by the spigot of Rabinowitz and Wagon (1995), without the carries of nines.
#include "program.h"

int main() {
    constexpr long terms = 10 * n / 3 + 1;
    ARRAY(int64_t, term, terms);
    for (long i = 0; i < terms; i++) term[i] = 2;
    long sum = 0;
    for (long digit = 0; digit < n; digit++) {
        int64_t carry = 0;
        for (long i = terms - 1; i > 0; i--) {
            int64_t value = 10 * term[i] + carry * (i + 1);
            term[i] = value % (2 * i + 1);
            carry = value / (2 * i + 1);
        }
        int64_t value = 10 * term[0] + carry;
        term[0] = value % 10;
        sum += value / 10;
    }
    return report(static_cast<double>(sum));
}
