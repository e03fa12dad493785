// n keys in a binary tree.
#include "program.h"

int main() {
    ARRAY(uint32_t, key, n + 1);
    ARRAY(int32_t, left, n + 1);
    ARRAY(int32_t, right, n + 1);
    long depth = 0;
    for (long i = 1; i <= n; i++) {
        key[i] = static_cast<uint32_t>(draw());
        if (i == 1) continue;
        int32_t at = 1;
        for (int32_t* next = &at; *next != 0; depth++) {
            at = *next;
            next = key[i] < key[at] ? &left[at] : &right[at];
            if (*next == 0) {
                *next = static_cast<int32_t>(i);
                break;
            }
        }
    }
    return report(static_cast<double>(depth));
}
