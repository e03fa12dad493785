// Thirty steps of heat that spreads over an n by n plate.
#include "program.h"

int main() {
    ARRAY(float, one, n * n);
    ARRAY(float, two, n * n);
    float *now = one, *next = two;
    for (long i = 0; i < n; i++) now[i] = next[i] = 100;
    for (int step = 0; step < 30; step++) {
        for (long i = 1; i < n - 1; i++)
            for (long j = 1; j < n - 1; j++)
                next[i * n + j] = 0.25F * (now[(i - 1) * n + j] + now[(i + 1) * n + j] +
                                           now[i * n + j - 1] + now[i * n + j + 1]);
        float* other = now;
        now = next;
        next = other;
    }
    return report(now[n + n / 2]);
}
