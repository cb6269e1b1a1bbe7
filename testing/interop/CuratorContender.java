import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Contends for a lock with Apache Curator. driver.ts describes the protocol. Arguments: connect
 * string, path of the lock, label.
 */
public final class CuratorContender {
  private static final String POM =
      "/META-INF/maven/org.apache.curator/curator-recipes/pom.properties";
  private static final int SECTION_MS = 1;
  private static final int END_BOUND_MS = 30_000;
  private static volatile boolean isStopped;

  /** A mutex that reveals the sequence number of its znode. */
  private static final class Mutex extends InterProcessMutex {
    Mutex(CuratorFramework client, String path) {
      super(client, path);
    }

    String sequence() {
      String path = getLockPath();
      return path.substring(path.length() - 10);
    }
  }

  /** The work of one thread. */
  private interface Work {
    void run(Mutex mutex) throws Exception;
  }

  public static void main(String[] args) throws Exception {
    if (args[0].equals("--version")) {
      Properties properties = new Properties();
      try (InputStream pom = InterProcessMutex.class.getResourceAsStream(POM)) {
        if (pom != null) properties.load(pom);
      }
      System.out.println("Curator " + properties.getProperty("version", "of some version"));
      return;
    }
    String path = args[1];
    try (CuratorFramework client =
        CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryOneTime(100))) {
      client.start();
      client.blockUntilConnected();
      System.out.println("ready");
      serve(client, path, args[2]);
    }
  }

  private static void serve(CuratorFramework client, String path, String label) throws Exception {
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    List<Thread> contending = new ArrayList<>();
    for (String line; (line = input.readLine()) != null; ) {
      String[] words = line.split(" ", 3);
      int waiters = Integer.parseInt(words[1]);
      if (words[0].equals("contend")) {
        FileChannel record = FileChannel.open(Path.of(words[2]), StandardOpenOption.APPEND);
        contending.addAll(start(client, path, waiters, mutex -> contend(mutex, record, label)));
      } else {
        System.out.println(time(client, path, waiters, Integer.parseInt(words[2])));
      }
    }
    isStopped = true;
    for (Thread thread : contending) {
      thread.join(END_BOUND_MS);
      if (thread.isAlive()) System.exit(1);
    }
  }

  private static void contend(Mutex mutex, FileChannel record, String label) throws Exception {
    while (!isStopped) {
      mutex.acquire();
      String who = " " + label + " " + mutex.sequence() + "\n";
      record.write(ByteBuffer.wrap(("enter" + who).getBytes()));
      Thread.sleep(SECTION_MS);
      record.write(ByteBuffer.wrap(("leave" + who).getBytes()));
      mutex.release();
    }
  }

  /** Microseconds per acquire and release. */
  private static double time(CuratorFramework client, String path, int waiters, int steps)
      throws Exception {
    AtomicInteger left = new AtomicInteger(steps);
    long startNs = System.nanoTime();
    List<Thread> threads = start(client, path, waiters, mutex -> {
      while (left.getAndDecrement() > 0) {
        mutex.acquire();
        mutex.release();
      }
    });
    for (Thread thread : threads) thread.join();
    return (System.nanoTime() - startNs) / 1e3 / steps;
  }

  /** Runs the work in one thread per waiter, each with its own mutex. An error ends the process. */
  private static List<Thread> start(CuratorFramework client, String path, int waiters, Work work) {
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < waiters; i++) {
      Thread thread = new Thread(() -> {
        try {
          work.run(new Mutex(client, path));
        } catch (Throwable error) {
          error.printStackTrace();
          System.exit(1);
        }
      });
      thread.start();
      threads.add(thread);
    }
    return threads;
  }
}
