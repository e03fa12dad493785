#include "program.h"

int main() {
    ARRAY(double, a, n * n);
    ARRAY(double, b, n * n);
    ARRAY(double, c, n * n);
    for (long i = 0; i < n * n; i++) a[i] = draw_share(), b[i] = draw_share();
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            double sum = 0;
            for (long k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    return report(c[n * n - 1]);
}
