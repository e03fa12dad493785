// All pairs, by Floyd and Warshall.
#include "program.h"

int main() {
    ARRAY(int32_t, length, n * n);
    for (long i = 0; i < n * n; i++) length[i] = static_cast<int32_t>(draw() % 1000 + 1);
    for (long k = 0; k < n; k++)
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++) {
                int32_t through = length[i * n + k] + length[k * n + j];
                if (through < length[i * n + j]) length[i * n + j] = through;
            }
    return report(length[n * n - 1]);
}
