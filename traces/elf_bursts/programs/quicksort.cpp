#include "program.h"

static void sort(uint32_t* x, long first, long last) {
    while (first < last) {
        uint32_t pivot = x[(first + last) / 2];
        long i = first, j = last;
        while (i <= j) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i <= j) {
                uint32_t other = x[i];
                x[i++] = x[j];
                x[j--] = other;
            }
        }
        if (j - first < last - i) {
            sort(x, first, j);
            first = i;
        } else {
            sort(x, i, last);
            last = j;
        }
    }
}

int main() {
    ARRAY(uint32_t, x, n);
    for (long i = 0; i < n; i++) x[i] = static_cast<uint32_t>(draw());
    sort(x, 0, n - 1);
    return report(x[n / 2]);
}
