type Schema = {
  title?: string;
  description?: string;
  type?: string;
  const?: unknown;
  enum?: unknown[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
};

/** Every file format as tables, from the schemas that the code validates with; `about` says what each event means. */
export function formatsPage(schemas: Array<[string, object]>, about: ReadonlyMap<string, string>): string {
  const configuration = rowsOf(Object.fromEntries(schemas)['agentd.schema.json'] ?? {});
  const parts = schemas.map(([name, schema]) => {
    const known = name === 'session.schema.json' ? configuration : new Set<string>();
    return `## ${titleOf(schema)}\n\n[Schema](schemas/${name})\n\n${body(schema, known, about)}`;
  });
  return [
    '# Formats',
    '',
    'Generated from the schemas in `src/protocol` by `npm run docs`. A key marked * must be there.',
    '',
    ...parts,
  ].join('\n');
}

function titleOf(schema: Schema): string {
  return schema.title ?? '';
}

function body(schema: Schema, known: ReadonlySet<string>, about: ReadonlyMap<string, string>): string {
  if (schema.oneOf) return events(schema.oneOf, about);
  const rows = [...rowsOf(schema)];
  const same = rows.filter((row) => known.has(row)).map((row) => row.split('|')[1]?.trim());
  return [
    ...(same.length > 0 ? [`As in agentd.json: ${same.join(', ')}.`, ''] : []),
    '| key | type | meaning |',
    '|---|---|---|',
    ...rows.filter((row) => !known.has(row)),
    '',
  ].join('\n');
}

/** What each event means, and its keys; those that every event has are said once. */
function events(types: Schema[], about: ReadonlyMap<string, string>): string {
  const keys = ({ properties = {} }: Schema) => Object.keys(properties).filter((key) => key !== 'type');
  const common = keys(types[0] ?? {}).filter((key) => types.every((type) => keys(type).includes(key)));
  const named = (type: Schema, key: string) => `\`${key}\`${type.required?.includes(key) ? ' *' : ''}`;
  const lines = types.map((type) => {
    const own = keys(type).filter((key) => !common.includes(key));
    const name = String(type.properties?.['type']?.const);
    return `- \`${name}\`: ${about.get(name)}. ${own.map((key) => named(type, key)).join(', ')}`;
  });
  const [first = {}] = types;
  return [`Every event has \`type\` *, ${common.map((key) => named(first, key)).join(', ')}.`, '', ...lines, ''].join(
    '\n',
  );
}

/** The rows of a table, in the order of the keys. */
const rowsOf = ({ properties = {}, required = [] }: Schema): Set<string> =>
  new Set(
    Object.entries(properties)
      .filter(([key]) => key !== '$schema')
      .map(
        ([key, value]) =>
          `| \`${key}\`${required.includes(key) ? ' *' : ''} | ${typeOf(value)} | ${value.description ?? ''} |`,
      ),
  );

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.enum) return schema.enum.map((value) => `\`${String(value)}\``).join(', ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return [...new Set(choices.map(typeOf))].join(' or ');
  if (schema.type === 'array') return `list of ${schema.items ? typeOf(schema.items) : 'anything'}`;
  if (schema.properties)
    return `{ ${Object.keys(schema.properties)
      .map((key) => `\`${key}\``)
      .join(', ')} }`;
  return schema.type ?? 'anything';
}
