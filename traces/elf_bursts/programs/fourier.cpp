// A Fourier transform by its definition.
#include "program.h"

int main() {
    ARRAY(float, signal, n);
    ARRAY(float, power, n);
    for (long i = 0; i < n; i++) signal[i] = static_cast<float>(draw_share());
    for (long k = 0; k < n; k++) {
        double angle = 2 * M_PI * static_cast<double>(k) / n;
        double step_re = cos(angle), step_im = sin(angle);
        double re = 0, im = 0, turn_re = 1, turn_im = 0;
        for (long i = 0; i < n; i++) {
            re += signal[i] * turn_re;
            im += signal[i] * turn_im;
            double next = turn_re * step_re - turn_im * step_im;
            turn_im = turn_re * step_im + turn_im * step_re;
            turn_re = next;
        }
        power[k] = static_cast<float>(re * re + im * im);
    }
    return report(power[n / 2]);
}
