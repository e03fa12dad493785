// The length of the Collatz sequence of every number up to n.
#include "program.h"

int main() {
    ARRAY(int16_t, length, n + 1);
    long longest = 0;
    for (long i = 1; i <= n; i++) {
        uint64_t x = static_cast<uint64_t>(i);
        int16_t steps = 0;
        while (x != 1) {
            x = x % 2 ? 3 * x + 1 : x / 2;
            steps++;
        }
        length[i] = steps;
        if (steps > length[longest]) longest = i;
    }
    return report(static_cast<double>(longest));
}
