/* Calls a library that does not return. */
void run_program(int status);
int main(void) {
    run_program(0);
    return 1;
}
