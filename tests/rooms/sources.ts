import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import ts from 'typescript';

/** A file of `src/`, its path from there, and the files of `src/` it imports, for values, as types or later. */
export type Source = { path: string; text: string; lines: string[]; imports: string[] };

export function readSources(): Source[] {
  const paths = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((path) => /\.tsx?$|\.mjs$/.test(path));
  return paths.sort().map((path) => {
    const text = readFileSync(join('src', path), 'utf8');
    const named = ts.preProcessFile(text, true, true).importedFiles.map(({ fileName }) => fileName);
    const ours = named.filter((name) => name.startsWith('.')).map((name) => normalize(join(dirname(path), name)));
    return { path, text, lines: text.replace(/\n$/, '').split('\n'), imports: [...new Set(ours)] };
  });
}

export const isUnder = (folder: string, path: string): boolean => path.startsWith(`${folder}/`);

/** The files that stand in a folder itself. */
export const filesIn = (sources: readonly Source[], folder: string): Source[] =>
  sources.filter(({ path }) => dirname(path) === folder);

/** Files that need each other, each circle once, as the path around it. */
export function findCircles(sources: readonly Source[]): string[] {
  const imports = new Map(sources.map((source) => [source.path, source.imports]));
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (path: string, way: readonly string[]) => {
    const start = way.indexOf(path);
    if (start >= 0) circles.push([...way.slice(start), path].join(' > '));
    if (start >= 0 || done.has(path)) return;
    for (const next of imports.get(path) ?? []) visit(next, [...way, path]);
    done.add(path);
  };
  for (const { path } of sources) visit(path, []);
  return circles;
}

/** Functions of more lines than `most`, as `file:line name`. */
export function longFunctions({ path, text, lines }: Source, most: number): string[] {
  if (lines.length <= most) return [];
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const lineOf = (position: number) => file.getLineAndCharacterOfPosition(position).line + 1;
  const visit = (node: ts.Node) => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined) {
      const first = lineOf(node.getStart(file));
      if (lineOf(node.end) - first + 1 > most) found.push(`${path}:${first} ${nameOf(node)}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

function nameOf(node: ts.Node): string {
  const named = ts.isVariableDeclaration(node.parent) ? node.parent : node;
  return 'name' in named && named.name !== undefined ? (named.name as ts.Node).getText() : '(without a name)';
}

const COMMENT = /^\s*(?:\/\/|\/?\*)|\s\/\/\s/;

export const longCommentLines = ({ lines }: Source, most: number): number =>
  lines.filter((line) => [...line].length > most && COMMENT.test(line)).length;
