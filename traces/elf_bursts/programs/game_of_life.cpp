// Twenty generations on an n by n torus.
#include "program.h"

int main() {
    ARRAY(uint8_t, one, n * n);
    ARRAY(uint8_t, two, n * n);
    uint8_t *now = one, *next = two;
    for (long i = 0; i < n * n; i++) now[i] = draw() % 3 == 0;
    for (int generation = 0; generation < 20; generation++) {
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++) {
                long up = (i + n - 1) % n * n, row = i * n, down = (i + 1) % n * n;
                long left = (j + n - 1) % n, right = (j + 1) % n;
                int alive = now[up + left] + now[up + j] + now[up + right] + now[row + left] +
                            now[row + right] + now[down + left] + now[down + j] + now[down + right];
                next[row + j] = alive == 3 || (alive == 2 && now[row + j]);
            }
        uint8_t* other = now;
        now = next;
        next = other;
    }
    long alive = 0;
    for (long i = 0; i < n * n; i++) alive += now[i];
    return report(static_cast<double>(alive));
}
