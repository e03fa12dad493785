#include "program.h"

int main() {
    ARRAY(double, a, n * n);
    for (long i = 0; i < n * n; i++) a[i] = draw_share();
    for (long i = 0; i < n; i++) a[i * n + i] += static_cast<double>(n);
    for (long k = 0; k < n; k++)
        for (long i = k + 1; i < n; i++) {
            double factor = a[i * n + k] /= a[k * n + k];
            for (long j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
        }
    return report(a[n * n - 1]);
}
