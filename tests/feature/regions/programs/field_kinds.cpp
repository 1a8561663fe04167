// Fields of classes that hold all kinds of others are found, whatever these look like in the code.
#include "feature.h"
#include <atomic>
#include <complex>
#include <map>
#include <string>
// model: member A kinds flag
// model: member B kinds after
// model: member C derived own
// model: member D packed number
enum class shade : char { dark, light };
struct nothing {};
struct root {
  long top;
  virtual ~root() {}
};
struct middle : virtual root {
  int between;
  char tail;
};
struct derived : middle {
  char own;
};
struct __attribute__((packed)) packed {
  char first;
  int number;
  short last;
};
typedef float four __attribute__((vector_size(16)));
struct kinds {
  bool flag;
  shade kind;
  [[no_unique_address]] nothing empty;
  four vector;
  long double precise;
  std::complex<double> complex;
  float array[3][2];
  void (kinds::*method)();
  int kinds::*member;
  void (*function)(int);
  int &reference;
  int &&other;
  std::atomic<int> atomic;
  std::string text;
  std::map<int, int> map;
  unsigned bits : 3;
  __int128 big;
  wchar_t wide;
  char16_t half;
  decltype(nullptr) null;
  union {
    int whole;
    float fraction;
  };
  volatile int after;
  int rest[0];
  kinds(int &value) : reference(value), other(static_cast<int &&>(value)) {}
};

int main(int argc, char **argv) {
  auto *k = new kinds(argc);
  auto *d = new derived;
  auto *p = static_cast<packed *>(malloc(sizeof(packed)));
  k->flag = argc;
  k->after = argc;
  d->own = argc;
  d->between = argc;
  p->number = argc;
  if (k->flag) // region {A}
    work(1);
  if (k->after) // region {B}
    work(2);
  if (d->own) // region {C}
    work(3);
  if (p->number) // region {D}
    work(4);
  if (d->between)
    work(5);
}
