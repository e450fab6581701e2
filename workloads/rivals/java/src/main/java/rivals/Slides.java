package rivals;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** Reads changes, has a store evaluate a query after each slide, and prints what the module rpq.workloads.rivals describes. */
final class Slides {
    /** An edge that enters or leaves the window. */
    record Edge(int source, int label, int target) {}

    /** The changes of a slide. */
    record Slide(long number, List<Edge> removed, List<Edge> added) {}

    /** A store of the edges of the window. */
    interface Store<Row> extends AutoCloseable {
        void change(List<Edge> removed, List<Edge> added);

        /** Return all rows of the answer. */
        List<Row> evaluate();

        /** Return the vertices of a row. */
        int[] vertices(Row row);

        @Override
        void close();
    }

    private static final double WARM_UP_SECONDS = 5;

    private Slides() {}

    /** Run over all slides, after a run in a store of its own for some seconds, so that the code is compiled. */
    static <Row> void run(String file, Supplier<Store<Row>> make) throws IOException {
        List<Slide> slides = read(Path.of(file));
        run(slides, make, WARM_UP_SECONDS, false);
        System.gc();
        System.out.println("ready");
        System.out.flush();
        run(slides, make, Double.POSITIVE_INFINITY, true);
    }

    private static <Row> void run(List<Slide> slides, Supplier<Store<Row>> make, double limit, boolean prints) {
        var threads = ManagementFactory.getThreadMXBean();
        try (Store<Row> store = make.get()) {
            double seconds = 0;
            for (Slide slide : slides) {
                long started = threads.getCurrentThreadCpuTime();
                store.change(slide.removed, slide.added);
                List<Row> rows = store.evaluate();
                seconds += (threads.getCurrentThreadCpuTime() - started) * 1e-9;
                if (prints) {
                    long sum = 0;
                    for (Row row : rows) {
                        sum += checksum(store.vertices(row));
                    }
                    System.out.println(
                            slide.number + "\t" + seconds + "\t" + rows.size() + "\t" + Long.toUnsignedString(sum));
                    System.out.flush();
                } else if (seconds > limit) {
                    return;
                }
            }
        }
    }

    private static long checksum(int[] row) {
        long hash = 0;
        for (int value : row) {
            hash = (hash ^ value) * 0x9E3779B97F4A7C15L;
            hash ^= hash >>> 32;
        }
        return hash;
    }

    private static List<Slide> read(Path file) throws IOException {
        List<Slide> slides = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            String[] cells = line.split("\t");
            long number = Long.parseLong(cells[0]);
            if (slides.isEmpty() || slides.get(slides.size() - 1).number != number) {
                slides.add(new Slide(number, new ArrayList<>(), new ArrayList<>()));
            }
            Slide slide = slides.get(slides.size() - 1);
            Edge edge = new Edge(Integer.parseInt(cells[2]), Integer.parseInt(cells[3]), Integer.parseInt(cells[4]));
            (cells[1].equals("+") ? slide.added : slide.removed).add(edge);
        }
        return slides;
    }
}
