struct shared {
  int slow, fast;
};
