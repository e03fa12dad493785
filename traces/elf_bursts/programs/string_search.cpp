// Fifty words looked for in a text of n letters.
#include "program.h"

int main() {
    ARRAY(char, text, n);
    for (long i = 0; i < n; i++) text[i] = "ab"[draw() % 2];
    long found = 0;
    for (int word = 0; word < 50; word++) {
        char wanted[12];
        for (char& letter : wanted) letter = "ab"[draw() % 2];
        for (long i = 0; i + 12 <= n; i++) {
            int k = 0;
            while (k < 12 && text[i + k] == wanted[k]) k++;
            found += k == 12;
        }
    }
    return report(static_cast<double>(found));
}
