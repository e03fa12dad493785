// The largest of 40 draws, n times.
#include "program.h"

int main() {
    ARRAY(uint64_t, largest, n);
    for (long i = 0; i < n; i++)
        for (int k = 0; k < 40; k++) {
            uint64_t drawn = draw();
            if (drawn > largest[i]) largest[i] = drawn;
        }
    return report(static_cast<double>(largest[n - 1]));
}
