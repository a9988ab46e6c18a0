import { Graph, layout } from '@dagrejs/dagre';
import type { EdgeKind, GraphNode, PlanGraph } from '../data/plan-graph.ts';

type Point = { x: number; y: number };
type Box = Point & { width: number; height: number };

/** A laid-out graph, in sixteenths of the font size; a box is positioned by its centre. */
export type DrawnGraph = {
  width: number;
  height: number;
  boxes: ReadonlyMap<string, Box & { lines: readonly string[] }>;
  groups: Array<Box & { id: string }>;
  edges: Array<{ key: string; kind: EdgeKind; path: string; head: string }>;
};

/** `padding`: from the edge of a node to its text. `line`: line height. */
export type NodeSize = { width: number; padding: number; line: number };
/** How many lines of a description are drawn, and their width in columns; a Chinese character takes two. */
const TEXT = { lines: 3, columns: 23 };
/** Lines above the text for the head line. */
const HEAD_LINES = 1;

/**
 * Lays out a graph, from left to right if `isWide`, else from top to bottom. This module is loaded on demand and must
 * not import modules of the page.
 */
export function drawGraph(
  graph: PlanGraph,
  isWide: boolean,
  textOf: (node: GraphNode) => string,
  size: NodeSize,
): DrawnGraph {
  const dagre = new Graph({ compound: true, multigraph: true });
  dagre.setGraph({ rankdir: isWide ? 'LR' : 'TB', nodesep: 16, ranksep: 32, edgesep: 8, marginx: 6, marginy: 6 });
  const texts = new Map(graph.nodes.map((node) => [node.id, wrapText(textOf(node), TEXT.columns, TEXT.lines)]));
  for (const { id } of graph.groups) {
    dagre.setNode(boxId(id), {});
    dagre.setNode(endId(id), { width: 1, height: 1 });
    dagre.setParent(endId(id), boxId(id));
  }
  for (const { id, group } of graph.nodes) {
    const lines = HEAD_LINES + (texts.get(id)?.length ?? 0);
    dagre.setNode(id, { width: size.width, height: lines * size.line + 2 * size.padding });
    if (group !== undefined) dagre.setParent(id, boxId(group));
  }
  // Places the contents of a group between its begin and its end by edges that are not drawn.
  const put = (group: string, begin: string, end: string) => {
    dagre.setEdge(group, begin, {}, 'begin');
    dagre.setEdge(end, endId(group), {}, 'end');
  };
  for (const { id, group } of graph.nodes) if (group !== undefined && group !== id) put(group, id, id);
  for (const { id, within } of graph.groups) {
    if (within === undefined) continue;
    dagre.setParent(boxId(id), boxId(within));
    put(within, id, endId(id));
  }
  const isGroup = new Set(graph.groups.map(({ id }) => id));
  const kinds = new Map<string | undefined, EdgeKind>(graph.edges.map(({ kind }) => [kind, kind]));
  for (const { kind, cause, effect } of graph.edges)
    dagre.setEdge(isGroup.has(cause) && kind !== 'child' ? endId(cause) : cause, effect, {}, kind);
  layout(dagre);
  if (isReversed(graph.nodes, (id) => dagre.node(id), isWide)) mirror(dagre, isWide);
  return {
    ...sizeOf(dagre.graph()),
    boxes: new Map(graph.nodes.map(({ id }) => [id, { ...boxOf(dagre.node(id)), lines: texts.get(id) ?? [] }])),
    groups: graph.groups.map(({ id }) => ({ id, ...boxOf(dagre.node(boxId(id))) })),
    edges: dagre.edges().flatMap((line) => {
      const kind = kinds.get(line.name);
      if (!kind) return [];
      return [{ key: `${line.v} ${line.w} ${kind}`, kind, ...drawLine(dagre.edge(line).points ?? []) }];
    }),
  };
}

type Placed = { x?: number; y?: number };

/** Whether most of the steps that are side by side are in the reverse order of the plan. */
function isReversed(nodes: readonly GraphNode[], placeOf: (id: string) => Placed, isWide: boolean): boolean {
  const rows = new Map<number, number[]>();
  for (const { id } of nodes) {
    const { x = 0, y = 0 } = placeOf(id);
    const [along, across] = isWide ? [x, y] : [y, x];
    rows.set(along, [...(rows.get(along) ?? []), across]);
  }
  const steps = [...rows.values()].flatMap((row) =>
    row.slice(1).map((across, place) => across - (row[place] ?? across)),
  );
  return steps.filter((by) => by < 0).length > steps.length / 2;
}

/** Mirrors a drawing, so that earlier steps of the plan are on top or at the left. */
function mirror(dagre: Graph, isWide: boolean): void {
  const { width, height } = sizeOf(dagre.graph());
  const turn = (place: Placed) => {
    if (isWide && place.y !== undefined) place.y = height - place.y;
    if (!isWide && place.x !== undefined) place.x = width - place.x;
  };
  for (const id of dagre.nodes()) turn(dagre.node(id));
  for (const line of dagre.edges()) dagre.edge(line).points?.forEach(turn);
}

const boxId = (group: string): string => `${group} box`;
const endId = (group: string): string => `${group} end`;

const sizeOf = ({ width = 0, height = 0 }: { width?: number; height?: number }) => ({ width, height });
const boxOf = ({ x = 0, y = 0, width = 0, height = 0 }: Partial<Box>): Box => ({ x, y, width, height });

/** Length of an arrow head, and half its width. */
const HEAD = { length: 8, half: 4 };

/** A line through these points with rounded corners, and an arrow head at its end. */
function drawLine(points: readonly Point[]): { path: string; head: string } {
  const [first, ...rest] = points;
  const [last, before] = [points.at(-1), points.at(-2)];
  if (!first || !last || !before) return { path: '', head: '' };
  const turns = rest.slice(0, -1).map((point, place) => {
    const next = rest[place + 1] ?? last;
    return `Q${at(point)} ${at({ x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 })}`;
  });
  const long = Math.hypot(last.x - before.x, last.y - before.y) || 1;
  const [dx, dy] = [(last.x - before.x) / long, (last.y - before.y) / long];
  const back = { x: last.x - dx * HEAD.length, y: last.y - dy * HEAD.length };
  const side = (sign: 1 | -1) => ({ x: back.x - sign * dy * HEAD.half, y: back.y + sign * dx * HEAD.half });
  return {
    path: `M${at(first)}${turns.join('')}L${at(last)}`,
    head: `M${at(last)}L${at(side(1))}L${at(side(-1))}Z`,
  };
}

const at = ({ x, y }: Point): string => `${x.toFixed(1)} ${y.toFixed(1)}`;

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[^\0-\uffff]/u;
const columnsOf = (text: string): number => Array.from(text).reduce((sum, one) => sum + (WIDE.test(one) ? 2 : 1), 0);

/**
 * Wraps a text, at spaces if possible, and ends it in "…" if it does not fit. A line keeps the space at which it is
 * broken, so that the joined lines are the text.
 */
function wrapText(text: string, columns: number, most: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.trim().match(/[^\s\u2e80-\uffef]+\s*|[\u2e80-\uffef]\s*|\s+/gu) ?? []) {
    for (const piece of cut(word.replace(/\s+/, ' '), columns)) {
      if (columnsOf(line) + columnsOf(piece.trimEnd()) > columns) {
        lines.push(line);
        line = '';
      }
      line += piece;
    }
    if (lines.length > most) break;
  }
  if (line.trim() !== '') lines.push(line);
  if (lines.length <= most) return lines;
  // Cuts before a whole word if possible.
  const last = (lines[most - 1] ?? '').trimEnd();
  const isCut = columnsOf(last) > columns - 1 || (last === lines[most - 1] && !WIDE.test(lines[most]?.[0] ?? ''));
  const kept = isCut ? last.replace(/[^\s\u2e80-\uffef]+$|.$/u, '').trimEnd() || last.slice(0, -1) : last;
  return [...lines.slice(0, most - 1), `${kept}…`];
}

/** Splits a word that is wider than a line. */
function cut(word: string, columns: number): string[] {
  if (columnsOf(word.trimEnd()) <= columns) return [word];
  const letters = Array.from(word);
  const pieces: string[] = [];
  for (let at = 0; at < letters.length; at += columns) pieces.push(letters.slice(at, at + columns).join(''));
  return pieces;
}
