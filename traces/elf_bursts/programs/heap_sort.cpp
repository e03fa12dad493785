#include "program.h"

static void sink(uint64_t* x, long at, long size) {
    uint64_t moved = x[at];
    for (long child = 2 * at + 1; child < size; child = 2 * at + 1) {
        if (child + 1 < size && x[child + 1] > x[child]) child++;
        if (x[child] <= moved) break;
        x[at] = x[child];
        at = child;
    }
    x[at] = moved;
}

int main() {
    ARRAY(uint64_t, x, n);
    for (long i = 0; i < n; i++) x[i] = draw();
    for (long i = n / 2; i >= 0; i--) sink(x, i, n);
    for (long size = n - 1; size > 0; size--) {
        uint64_t largest = x[0];
        x[0] = x[size];
        x[size] = largest;
        sink(x, 0, size);
    }
    return report(static_cast<double>(x[n / 2]));
}
