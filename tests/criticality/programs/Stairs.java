// Java threads that pass through one synchronized method, which does all the work.
public class Stairs {
    private static int kept;

    static synchronized void climbStairs(int n) {
        int x = kept;
        for (int i = 0; i < n; i++) {
            x = (x ^ (x >>> 15)) * -2048144777 + i;
        }
        kept = x;
    }

    public static void main(String[] arguments) throws InterruptedException {
        Thread[] threads = new Thread[3];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> {
                for (int i = 0; i < 200; i++) {
                    climbStairs(2_000_000);
                }
            }, "climber-" + t);
            threads[t].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(kept);
    }
}
