package rivals;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.jena.datatypes.TypeMapper;
import org.apache.jena.graph.Graph;
import org.apache.jena.graph.Node;
import org.apache.jena.graph.NodeFactory;
import org.apache.jena.graph.Triple;
import org.apache.jena.mem2.GraphMem2Fast;
import org.apache.jena.query.DatasetFactory;
import org.apache.jena.query.Query;
import org.apache.jena.query.QueryExecution;
import org.apache.jena.query.QueryExecutionFactory;
import org.apache.jena.query.QueryFactory;
import org.apache.jena.query.ResultSet;
import org.apache.jena.rdf.model.Model;
import org.apache.jena.rdf.model.ModelFactory;
import org.apache.jena.sparql.core.DatasetGraph;
import org.apache.jena.sparql.core.DatasetGraphMapLink;
import org.apache.jena.sparql.core.Var;
import org.apache.jena.sparql.engine.binding.Binding;

/**
 * Jena's fastest graph in memory, one for each named graph, without transactions; the query is parsed once, and the terms of
 * the file are made while reading. Arguments: CHANGES SPARQL [TERMS].
 */
final class Jena implements Slides.Store<Binding> {
    private final Graph graph = new GraphMem2Fast();
    private final Model model = ModelFactory.createModelForGraph(graph);
    private final Map<Integer, Graph> graphs = new HashMap<>();
    private final DatasetGraph dataset = new DatasetGraphMapLink(graph);
    private final Node[] terms;
    private final Map<Node, Integer> numbers = new HashMap<>();
    private final Query query;
    private final List<Var> columns;

    private Jena(String text, List<Slides.Term> read) {
        query = QueryFactory.create(text);
        columns = query.getProjectVars();
        terms = read == null ? null : read.stream().map(Jena::node).toArray(Node[]::new);
        for (int number = 0; terms != null && number < terms.length; number++) {
            numbers.put(terms[number], number);
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<Slides.Term> terms = Slides.terms(arguments);
        Slides.run(arguments[0], () -> new Jena(arguments[1], terms));
    }

    private static Node node(Slides.Term term) {
        return term.datatype() == null
                ? NodeFactory.createURI(term.text())
                : NodeFactory.createLiteralDT(term.text(), TypeMapper.getInstance().getSafeTypeByName(term.datatype()));
    }

    private Node vertex(int number) {
        return terms == null ? NodeFactory.createURI("urn:v:" + number) : terms[number];
    }

    private Triple triple(Slides.Edge edge) {
        Node label = terms == null ? NodeFactory.createURI("urn:l:" + edge.label()) : terms[edge.label()];
        return Triple.create(vertex(edge.source()), label, vertex(edge.target()));
    }

    private Graph graph(Slides.Edge edge) {
        return edge.graph() < 0 ? graph : graphs.computeIfAbsent(edge.graph(), number -> {
            Graph named = new GraphMem2Fast();
            dataset.addGraph(terms[number], named);
            return named;
        });
    }

    @Override
    public void clear() {
        graph.clear();
        graphs.values().forEach(Graph::clear);
    }

    @Override
    public void change(List<Slides.Edge> removed, List<Slides.Edge> added) {
        for (Slides.Edge edge : removed) {
            graph(edge).delete(triple(edge));
        }
        for (Slides.Edge edge : added) {
            graph(edge).add(triple(edge));
        }
    }

    @Override
    public List<Binding> evaluate() {
        List<Binding> rows = new ArrayList<>();
        try (QueryExecution execution = graphs.isEmpty()
                ? QueryExecutionFactory.create(query, model)
                : QueryExecutionFactory.create(query, DatasetFactory.wrap(dataset))) {
            for (ResultSet found = execution.execSelect(); found.hasNext(); ) {
                rows.add(found.nextBinding());
            }
        }
        return rows;
    }

    @Override
    public Object[] cells(Binding row) {
        return columns.stream().map(name -> cell(row.get(name))).toArray();
    }

    private Object cell(Node node) {
        if (node == null) {
            return null;
        }
        if (terms == null) {
            return Integer.valueOf(node.getURI().substring(6));
        }
        if (node.isLiteral() && Slides.isNumber(node.getLiteralDatatypeURI())) {
            return Double.valueOf(node.getLiteralLexicalForm());
        }
        return numbers.get(node);
    }

    @Override
    public void close() {
        dataset.close();
    }
}
