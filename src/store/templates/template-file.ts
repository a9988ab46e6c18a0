import { isMap, LineCounter, parseDocument, stringify } from 'yaml';
import { z } from 'zod';
import { valueAtPath } from '../../base/collections.ts';
import { errorText } from '../../base/user-error.ts';
import { type Template, TemplateHead } from '../../protocol/templates/template.ts';
import { describeSchemaErrors, type SchemaLike } from '../settings/schema-errors.ts';

export type ParsedTemplate = { ok: true; template: Template } | { ok: false; why: string };

const FRONT_MATTER = /^---[ \t]*\r?\n((?:[\s\S]*?\r?\n)??)---[ \t]*(?:\r?\n|$)/;

const HEAD_SCHEMA: SchemaLike<TemplateHead> = {
  safeParse: (value) => TemplateHead.safeParse(value),
  toJSONSchema: () => z.toJSONSchema(TemplateHead, { unrepresentable: 'any' }),
};

/** Parses the text of `templates/<name>.md`, or says in which line what was expected. */
export function parseTemplate(name: string, text: string): ParsedTemplate {
  const file = text.replace(/^\uFEFF/, '');
  const faulty = (line: number, what: string): ParsedTemplate => ({
    ok: false,
    why: `templates/${name}.md, line ${line}: ${what}`,
  });
  const front = FRONT_MATTER.exec(file);
  if (!front && /^---[ \t]*\r?\n/.test(file))
    return faulty(1, 'the front matter has no end; expected a line "---" after it');
  const [whole = '', yaml = ''] = front ?? [];
  const head = parseHead(yaml);
  if ('faults' in head)
    return {
      ok: false,
      why: head.faults.map(({ line, what }) => `templates/${name}.md, line ${line + 1}: ${what}`).join('\n'),
    };
  const skipped = whole.split('\n').length - 1;
  return { ok: true, template: { name, head: head.value, body: file.slice(whole.length), frontMatterLines: skipped } };
}

type HeadFaults = { faults: Array<{ line: number; what: string }> };

function parseHead(yaml: string): { value: TemplateHead } | HeadFaults {
  const lines = new LineCounter();
  const lineAt = (offset: number) => lines.linePos(offset).line;
  try {
    const doc = parseDocument(yaml, { lineCounter: lines, prettyErrors: false, version: '1.2' });
    const wrong = [...doc.errors, ...doc.warnings];
    if (wrong.length > 0)
      return { faults: wrong.map(({ pos, message }) => ({ line: lineAt(pos[0]), what: `not YAML: ${message}` })) };
    // No aliases: templates do not need them, and they can make a small file huge.
    const value: unknown = doc.toJS({ maxAliasCount: 0 }) ?? {};
    const result = TemplateHead.safeParse(value);
    if (result.success) return { value: result.data };
    return {
      faults: describeSchemaErrors(result.error.issues, value, HEAD_SCHEMA).map(({ path, text }) => ({
        line: lineAt(offsetOfPath(doc.contents, path)),
        what: text,
      })),
    };
  } catch (error) {
    return { faults: [{ line: 1, what: `not YAML: ${errorText(error)}` }] };
  }
}

/** The offset of a path's key, or of its nearest existing parent. */
function offsetOfPath(contents: unknown, path: PropertyKey[]): number {
  let [here, offset] = [contents, 0];
  for (const key of path) {
    const pair = isMap(here) ? here.items.find((one) => String(one.key) === String(key)) : undefined;
    if (!pair) break;
    offset = Number(valueAtPath(pair.key, ['range', 0]) ?? offset);
    here = pair.value;
  }
  return offset;
}

/** The text of a template file. */
export function formatTemplate(head: TemplateHead, body: string): string {
  return `---\n${stringify(head, { lineWidth: 0 })}---\n${body.trimEnd()}\n`;
}
