/* Each level crosses the boundary twice: program to library, library to program. */
long step_down(long depth);
long descend(long depth) { return depth ? 1 + step_down(depth - 1) : 0; }
