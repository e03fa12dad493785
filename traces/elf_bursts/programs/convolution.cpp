#include "program.h"

int main() {
    constexpr long width = n / 8 + 1;
    ARRAY(float, signal, n + width);
    ARRAY(float, kernel, width);
    ARRAY(float, result, n);
    for (long i = 0; i < n + width; i++) signal[i] = static_cast<float>(draw_share());
    for (long i = 0; i < width; i++) kernel[i] = static_cast<float>(draw_share());
    for (long i = 0; i < n; i++) {
        float sum = 0;
        for (long k = 0; k < width; k++) sum += signal[i + k] * kernel[k];
        result[i] = sum;
    }
    return report(result[n - 1]);
}
