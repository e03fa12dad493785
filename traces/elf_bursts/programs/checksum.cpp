// Eight CRC-32 of n bytes.
#include "program.h"

int main() {
    static uint32_t table[256];
    ARRAY(uint8_t, bytes, n);
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? 0xEDB88320U ^ value >> 1 : value >> 1;
        table[i] = value;
    }
    for (long i = 0; i < n; i++) bytes[i] = static_cast<uint8_t>(draw());
    uint32_t crc = 0;
    for (int round = 0; round < 8; round++)
        for (long i = 0; i < n; i++) crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
    return report(crc);
}
