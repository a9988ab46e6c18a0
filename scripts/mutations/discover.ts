import * as fs from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { GUARDED, REDUNDANT } from './catalog.ts';

export type Kind = 'sync' | 'fence' | 'guard' | 'patch';

/** The removal of one protection: `length` characters of a file from `start` on are replaced. */
export type Mutation = {
  kind: Kind;
  file: string;
  line: number;
  /** The removed code, on one line. */
  code: string;
  start: number;
  length: number;
  replacement: string;
  /** The tests that must notice it, if not those of its room. */
  tests?: string[][];
};

/** Calls after which bytes or names survive a power cut. */
const SYNCS = new Set(['sync', 'fsync', 'fdatasync', 'fsyncSync', 'fdatasyncSync', 'syncFolder', 'syncFile']);

/**
 * The protections that can be found by their form, in source order: each call that syncs, each check of the workspace's
 * owner before an action, and, in the files of `GUARDED`, each `if` that refuses (throws or returns).
 */
export function discover(root: string): Mutation[] {
  const files = fs.readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
  return files
    .filter((name) => name.endsWith('.ts'))
    .sort()
    .flatMap((name) => inFile(`src/${name}`, fs.readFileSync(join(root, 'src', name), 'utf8')))
    .filter(({ file, code }) => !REDUNDANT.some((one) => one.file === file && code.includes(one.code)));
}

/** A quick test for files with a sync or a fence, since parsing TypeScript takes a hundred times as long. */
const SPELLED = new RegExp(`\\b(?:${[...SYNCS].join('|')}|owner\\.check)\\b`);

function inFile(file: string, text: string): Mutation[] {
  if (!isGuarded(file) && !SPELLED.test(text)) return [];
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2023, true);
  const found: Mutation[] = [];
  const take = (kind: Kind, node: ts.Node, replacement: string, shown: ts.Node = node) => {
    const start = node.getStart(source);
    found.push({
      ...{ kind, file, start, replacement },
      line: source.getLineAndCharacterOfPosition(start).line + 1,
      length: node.getEnd() - start,
      code: shown.getText(source).replace(/\s+/g, ' ').slice(0, 100),
    });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      if (SYNCS.has(nameOf(node.expression))) take('sync', node, 'Promise.resolve()');
      else if (/\bowner\.check$/.test(node.expression.getText(source))) take('fence', node, 'undefined');
    }
    if (ts.isIfStatement(node) && isGuarded(file) && refuses(node.thenStatement)) {
      take('guard', node.expression, 'false', node);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const isGuarded = (file: string) => GUARDED.some((place) => file === place || file.startsWith(`${place}/`));

function nameOf(callee: ts.Expression): string {
  if (ts.isIdentifier(callee)) return callee.text;
  return ts.isPropertyAccessExpression(callee) ? callee.name.text : '';
}

/** Whether a branch ends by throwing or returning. */
function refuses(branch: ts.Statement): boolean {
  const last = ts.isBlock(branch) ? branch.statements.at(-1) : branch;
  return last !== undefined && (ts.isThrowStatement(last) || ts.isReturnStatement(last));
}
