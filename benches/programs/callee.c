long callee0(long x) { return x + 1; }
long callee1(long x) { return x + 2; }
long callee2(long x) { return x + 3; }
long callee3(long x) { return x + 4; }
