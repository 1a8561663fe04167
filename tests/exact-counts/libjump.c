void jump_back(void);
void jump(void) { jump_back(); }
