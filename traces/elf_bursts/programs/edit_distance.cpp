#include "program.h"

int main() {
    ARRAY(char, a, n);
    ARRAY(char, b, n);
    ARRAY(int32_t, row, n + 1);
    for (long i = 0; i < n; i++) a[i] = "acgt"[draw() % 4], b[i] = "acgt"[draw() % 4];
    for (long j = 0; j <= n; j++) row[j] = static_cast<int32_t>(j);
    for (long i = 0; i < n; i++) {
        int32_t diagonal = row[0];
        row[0]++;
        for (long j = 0; j < n; j++) {
            int32_t least = diagonal + (a[i] != b[j]);
            if (row[j] + 1 < least) least = row[j] + 1;
            if (row[j + 1] + 1 < least) least = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = least;
        }
    }
    return report(row[n]);
}
