package rivals;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.eclipse.rdf4j.common.transaction.IsolationLevels;
import org.eclipse.rdf4j.model.IRI;
import org.eclipse.rdf4j.model.Literal;
import org.eclipse.rdf4j.model.Resource;
import org.eclipse.rdf4j.model.Statement;
import org.eclipse.rdf4j.model.Value;
import org.eclipse.rdf4j.model.ValueFactory;
import org.eclipse.rdf4j.query.BindingSet;
import org.eclipse.rdf4j.query.TupleQuery;
import org.eclipse.rdf4j.query.TupleQueryResult;
import org.eclipse.rdf4j.repository.sail.SailRepository;
import org.eclipse.rdf4j.repository.sail.SailRepositoryConnection;
import org.eclipse.rdf4j.sail.memory.MemoryStore;

/**
 * RDF4J's store in memory: one connection, no isolation, no inference, a transaction for each slide; the query is parsed
 * once, and the terms of the file are made while reading. Arguments: CHANGES SPARQL [TERMS].
 */
final class Rdf4j implements Slides.Store<BindingSet> {
    private final SailRepository repository = new SailRepository(new MemoryStore());
    private final SailRepositoryConnection connection = repository.getConnection();
    private final ValueFactory values = repository.getValueFactory();
    private final Value[] terms;
    private final Map<Value, Integer> numbers = new HashMap<>();
    private final TupleQuery query;
    private List<String> columns;

    private Rdf4j(String text, List<Slides.Term> read) {
        connection.setIsolationLevel(IsolationLevels.NONE);
        query = connection.prepareTupleQuery(text);
        query.setIncludeInferred(false);
        terms = read == null ? null : read.stream().map(this::value).toArray(Value[]::new);
        for (int number = 0; terms != null && number < terms.length; number++) {
            numbers.put(terms[number], number);
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<Slides.Term> terms = Slides.terms(arguments);
        Slides.run(arguments[0], () -> new Rdf4j(arguments[1], terms));
    }

    private Value value(Slides.Term term) {
        return term.datatype() == null
                ? values.createIRI(term.text())
                : values.createLiteral(term.text(), values.createIRI(term.datatype()));
    }

    private Value vertex(int number) {
        return terms == null ? values.createIRI("urn:v:" + number) : terms[number];
    }

    private List<Statement> statements(List<Slides.Edge> edges) {
        List<Statement> statements = new ArrayList<>(edges.size());
        for (Slides.Edge edge : edges) {
            IRI label = terms == null ? values.createIRI("urn:l:" + edge.label()) : (IRI) terms[edge.label()];
            Resource source = (Resource) vertex(edge.source());
            statements.add(
                    edge.graph() < 0
                            ? values.createStatement(source, label, vertex(edge.target()))
                            : values.createStatement(source, label, vertex(edge.target()), (Resource) terms[edge.graph()]));
        }
        return statements;
    }

    @Override
    public void clear() {
        connection.begin();
        connection.clear();
    }

    @Override
    public void change(List<Slides.Edge> removed, List<Slides.Edge> added) {
        if (!connection.isActive()) {
            connection.begin();
        }
        connection.remove(statements(removed));
        connection.add(statements(added));
        connection.commit();
    }

    @Override
    public List<BindingSet> evaluate() {
        List<BindingSet> rows = new ArrayList<>();
        try (TupleQueryResult found = query.evaluate()) {
            columns = found.getBindingNames();
            found.forEach(rows::add);
        }
        return rows;
    }

    @Override
    public Object[] cells(BindingSet row) {
        return columns.stream().map(name -> cell(row.getValue(name))).toArray();
    }

    private Object cell(Value value) {
        if (value == null) {
            return null;
        }
        if (terms == null) {
            return Integer.valueOf(value.stringValue().substring(6));
        }
        if (value instanceof Literal literal && Slides.isNumber(literal.getDatatype().stringValue())) {
            return Double.valueOf(literal.getLabel());
        }
        return numbers.get(value);
    }

    @Override
    public void close() {
        connection.close();
        repository.shutDown();
    }
}
