#include "feature.h"

#include <pthread.h>
struct job {
  int count, level;
};
static void *run(void *argument) {
  struct job *job = argument;
  work(0);
  for (int i = 0; i < job->count; i++)
    work(i);
  if (job->level > 3) // region {Level}
    work(1);
  return 0;
}
int main(int argc, char **argv) {
  FEATURE(Level) int level = argc;
  struct job job;
  pthread_t thread;
  job.count = argc;
  job.level = level;
  pthread_create(&thread, 0, run, &job);
  pthread_join(thread, 0);
  return 0;
}
