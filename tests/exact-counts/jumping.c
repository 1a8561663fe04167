/* More jumps than there are frames. */
int catching(void);
int main(void) {
    int caught = 0;
    for (int i = 0; i < 1500000; i++) caught += catching();
    return caught != 1500000;
}
