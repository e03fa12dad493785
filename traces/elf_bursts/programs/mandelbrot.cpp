#include "program.h"

int main() {
    ARRAY(uint8_t, image, n * n);
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) {
            double re = 3.0 * static_cast<double>(j) / n - 2, im = 2.0 * static_cast<double>(i) / n - 1;
            double x = 0, y = 0;
            int steps = 0;
            while (steps < 60 && x * x + y * y < 4) {
                double next = x * x - y * y + re;
                y = 2 * x * y + im;
                x = next;
                steps++;
            }
            image[i * n + j] = static_cast<uint8_t>(steps);
        }
    long inside = 0;
    for (long i = 0; i < n * n; i++) inside += image[i] == 60;
    return report(static_cast<double>(inside));
}
