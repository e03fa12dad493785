// Twenty products of a vector and a matrix with eight numbers a row.
#include "program.h"

int main() {
    ARRAY(int32_t, column, 8 * n);
    ARRAY(double, value, 8 * n);
    ARRAY(double, one, n);
    ARRAY(double, two, n);
    double *x = one, *y = two;
    for (long i = 0; i < 8 * n; i++)
        column[i] = static_cast<int32_t>(draw() % n), value[i] = draw_share() / 4;
    for (long i = 0; i < n; i++) x[i] = 1;
    for (int round = 0; round < 20; round++) {
        for (long i = 0; i < n; i++) {
            double sum = 0;
            for (long k = 8 * i; k < 8 * i + 8; k++) sum += value[k] * x[column[k]];
            y[i] = sum;
        }
        double* other = x;
        x = y;
        y = other;
    }
    return report(x[n / 2]);
}
