package rivals;

import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.io.BufferedReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;

/**
 * Esper: a statement over windows of time, whose listener gets each row that enters or leaves. An event is a bean of the type
 * that its label names; the clock is the number of the slide, in seconds. Arguments: TUPLES EPL TERMS.
 */
public final class Esper {
    private static final double WARM_UP_SECONDS = 5;

    private record Tuple(long slide, boolean isBefore, String label, Edge edge) {}

    private record Rows(EventBean[] entered, EventBean[] left) {}

    private long sum;
    private double total;
    private long answers;

    private Esper() {}

    /** An edge: the number of its source, and the value of its target. */
    public static final class Edge {
        private final int source;
        private final double value;

        Edge(int source, double value) {
            this.source = source;
            this.value = value;
        }

        public int getSource() {
            return source;
        }

        public double getValue() {
            return value;
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<Tuple> tuples = read(Path.of(arguments[0]), Slides.terms(arguments));
        new Esper().run(tuples, arguments[1], WARM_UP_SECONDS, false);
        System.gc();
        new Esper().run(tuples, arguments[1], Double.POSITIVE_INFINITY, true);
    }

    private static List<Tuple> read(Path file, List<Slides.Term> terms) throws Exception {
        List<Tuple> tuples = new ArrayList<>();
        try (BufferedReader lines = Files.newBufferedReader(file)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] cells = line.split("\t");
                String label = terms.get(Integer.parseInt(cells[3])).text();
                double value = Double.parseDouble(terms.get(Integer.parseInt(cells[4])).text());
                Edge edge = new Edge(Integer.parseInt(cells[2]), value);
                tuples.add(new Tuple(
                        Long.parseLong(cells[0]), cells[1].equals("="), label.substring(label.indexOf(':') + 1), edge));
            }
        }
        return tuples;
    }

    private void run(List<Tuple> tuples, String epl, double limit, boolean prints) throws Exception {
        Configuration configuration = new Configuration();
        for (String label : new TreeSet<>(tuples.stream().map(Tuple::label).toList())) {
            configuration.getCommon().addEventType(label, Edge.class);
        }
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        var compiled = EPCompilerProvider.getCompiler().compile(epl, new CompilerArguments(configuration));
        EPRuntime runtime = EPRuntimeProvider.getRuntime("rival-" + prints, configuration);
        runtime.getEventService().advanceTime(0);
        EPStatement statement = runtime.getDeploymentService().deploy(compiled).getStatements()[0];
        List<Rows> changes = new ArrayList<>();
        statement.addListener((entered, left, of, by) -> changes.add(new Rows(entered, left)));
        var threads = ManagementFactory.getThreadMXBean();
        long spent = 0;
        boolean wasBefore = true;
        for (int start = 0, end; start < tuples.size(); start = end) {
            long slide = tuples.get(start).slide;
            for (end = start; end < tuples.size() && tuples.get(end).slide == slide; ) {
                end++;
            }
            boolean isBefore = tuples.get(start).isBefore;
            if (prints && wasBefore && !isBefore) {
                System.out.println("ready");
                System.out.flush();
            }
            wasBefore = isBefore;
            long started = threads.getCurrentThreadCpuTime();
            runtime.getEventService().advanceTime(slide * 1000);
            for (Tuple tuple : tuples.subList(start, end)) {
                runtime.getEventService().sendEventBean(tuple.edge, tuple.label);
            }
            spent += isBefore ? 0 : threads.getCurrentThreadCpuTime() - started;
            if (prints) {
                apply(changes, statement.getEventType().getPropertyNames());
            }
            changes.clear();
            if (prints && !isBefore) {
                System.out.println(slide + "\t" + spent * 1e-9 + "\t" + answers + "\t" + Long.toUnsignedString(sum) + "\t"
                        + total + "\t0");
                System.out.flush();
            } else if (spent * 1e-9 > limit) {
                break;
            }
        }
        runtime.destroy();
    }

    private void apply(List<Rows> changes, String[] names) {
        for (Rows rows : changes) {
            apply(rows.left, names, -1);
            apply(rows.entered, names, 1);
        }
    }

    /** Add or subtract rows: cells are properties from c0 on; groups whose count n is 0, or value null, are no answers. */
    private void apply(EventBean[] rows, String[] names, int sign) {
        for (EventBean row : rows == null ? new EventBean[0] : rows) {
            int columns = names.length;
            for (String name : names) {
                if (name.equals("n")) {
                    columns--;
                }
            }
            if (columns < names.length && ((Number) row.get("n")).longValue() == 0) {
                continue;
            }
            Object[] cells = new Object[columns];
            boolean isAnswer = true;
            for (int place = 0; place < columns; place++) {
                cells[place] = row.get("c" + place);
                isAnswer &= cells[place] != null;
            }
            if (isAnswer) {
                long hash = Slides.checksum(cells);
                answers += sign;
                sum += sign * hash;
                total += sign * Slides.weighted(cells, hash);
            }
        }
    }
}
