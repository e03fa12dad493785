// n things, a knapsack for n.
#include "program.h"

int main() {
    ARRAY(int32_t, best, n + 1);
    for (long thing = 0; thing < n; thing++) {
        long size = static_cast<long>(draw() % 100) + 1;
        int32_t worth = static_cast<int32_t>(draw() % 1000);
        for (long room = n; room >= size; room--) {
            int32_t with = best[room - size] + worth;
            if (with > best[room]) best[room] = with;
        }
    }
    return report(best[n]);
}
