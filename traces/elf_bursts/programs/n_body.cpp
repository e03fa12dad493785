// Five steps of n bodies that attract each other, in a plane.
#include "program.h"

int main() {
    ARRAY(double, x, n);
    ARRAY(double, y, n);
    ARRAY(double, speed_x, n);
    ARRAY(double, speed_y, n);
    for (long i = 0; i < n; i++) x[i] = draw_share(), y[i] = draw_share();
    for (int step = 0; step < 5; step++) {
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++) {
                double dx = x[j] - x[i], dy = y[j] - y[i];
                double square = dx * dx + dy * dy + 0.01;
                double pull = 1e-6 / (square * sqrt(square));
                speed_x[i] += pull * dx;
                speed_y[i] += pull * dy;
            }
        for (long i = 0; i < n; i++) x[i] += speed_x[i], y[i] += speed_y[i];
    }
    return report(x[n / 2]);
}
