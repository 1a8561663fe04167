// The plugin of plugin_host.

static unsigned char clamped(int value) { return (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value); }

/* Weighs each point against its eight neighbours. */
void sharpen(const unsigned char *from, unsigned char *to, int side);
void sharpen(const unsigned char *from, unsigned char *to, int side) {
    for (int y = 1; y < side - 1; y++)
        for (int x = 1; x < side - 1; x++) {
            const unsigned char *at = from + y * side + x;
            int around = 0;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++)
                    around += at[dy * side + dx];       // culprit
            to[y * side + x] = clamped(2 * at[0] - around / 9); // culprit
        }
}
