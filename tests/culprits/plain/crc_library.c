// The static library of parcel_checks: a CRC bit by bit, without a table.
#include <stddef.h>
#include <stdint.h>

uint32_t crc_of(const unsigned char *bytes, size_t size);

uint32_t crc_of(const unsigned char *bytes, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1))); // culprit
    }
    return ~crc;
}
