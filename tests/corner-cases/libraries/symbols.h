/* Kinds of symbols: IFUNC, weak, versioned, protected, data. */
#ifndef SYMBOLS_H
#define SYMBOLS_H
typedef int (*Operation)(int);
int chosen(int x);                              /* IFUNC */
int versioned(int x);                           /* two versions: V1 adds 1, V2 (default) adds 2 */
__attribute__((weak)) int absent(int x);        /* defined nowhere */
__attribute__((weak)) int present_weak(int x);  /* weak reference to a strong definition */
int weak_definition(int x);                     /* weak here, overridden by the program */
int call_weak_definition(int x);
int protected_function(int x);
Operation protected_pointer(void);
Operation pointer_to_plain_symbol(void);
int plain_symbol(int x);
int call_through(Operation operation, int x);
extern int shared_data;
extern const Operation table_of_operations[3];
int interposed(int x);
int call_interposed(int x);
int next_interposed(int x);
int constructor_order(void);
#endif
