import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { isConnected } from '../data/api.ts';
import { hrefOf, sessions } from '../data/overview.ts';
import {
  EDGE_KINDS,
  type EdgeKind,
  type GraphNode,
  isLarger,
  nearestPart,
  type PlanGraph,
  planGraph,
} from '../data/plan-graph.ts';
import { Loading, Notice } from '../parts/controls.tsx';
import { useAnswer } from '../parts/hooks.ts';
import { SIGNS, type State } from '../parts/icons.tsx';
import { words } from '../text/wording.ts';
import type { DrawnGraph, drawGraph } from './graph-layout.ts';

const NODE = { width: 208, padding: 8, line: 16 };
/** Of a larger graph only a part is drawn: its layout would block the page, and nobody could read it. */
const MOST = { nodes: 120, edges: 300 };
const PART = { nodes: 60, edges: 150 };
/** Where the plan has the width of the page, a graph goes from left to right. */
const wideScreen = matchMedia('(min-width: 48rem) and (max-width: 68.74rem)');
const hasRoom = signal(wideScreen.matches);
wideScreen.addEventListener('change', () => {
  hasRoom.value = wideScreen.matches;
});

type GraphProps = { session: string; plan: Plan; selected: string };

/** The plan as a graph; its layout is loaded on demand. */
export function PlanGraphView(props: GraphProps) {
  const { value, problem } = useAnswer(() => import('./graph-layout.ts'), [isConnected.value]);
  if (problem !== undefined) return <Notice isProblem>{words.value.lost}</Notice>;
  if (!value) return <Loading />;
  const whole = planGraph(props.plan);
  const isPart = isLarger(whole, MOST);
  const graph = isPart ? nearestPart(whole, PART, props.selected) : whole;
  const shown = graph.nodes.filter(({ kind }) => kind === 'step').length;
  return (
    <>
      {isPart && <p class="quiet">{words.value.partOfGraph(shown, props.plan.steps.length)}</p>}
      <Drawing {...props} {...{ graph, isPart }} draw={value.drawGraph} />
    </>
  );
}

type DrawingProps = GraphProps & { graph: PlanGraph; isPart: boolean; draw: typeof drawGraph };

/**
 * Steps are links, which arrow keys can reach too, with lines from a step to those that wait for it. The accessible
 * name of a step says what its lines show.
 */
function Drawing({ session, graph, isPart, selected, draw }: DrawingProps) {
  const isWide = hasRoom.value;
  const { nodes, edges } = graph;
  const shape = JSON.stringify([isWide, edges, nodes.map((node) => [node.id, node.group, nodeText(node)])]);
  const drawn = useMemo(() => draw(graph, isWide, nodeText, NODE), [shape]);
  const { width, height } = drawn;
  const first = nodes.find((one) => one.kind === 'step' && one.step.status === 'running') ?? nodes[0];
  useEffect(() => showNode(selected || first?.id), [isWide, isPart && selected]);
  return (
    <>
      <div class="graph">
        {/* biome-ignore lint/a11y/useSemanticElements: a fieldset cannot contain a drawing. */}
        <svg
          role="group"
          aria-label={words.value.planViews.graph}
          viewBox={`0 0 ${width} ${height}`}
          width={`${width / 16}rem`}
          height={`${height / 16}rem`}
          onKeyDown={(event) => moveFocus(event, drawn)}
        >
          {drawn.groups.map((group) => (
            <rect key={group.id} class="group" rx={8} {...cornerOf(group)} />
          ))}
          {drawn.edges.map(({ key, kind, path, head }) => (
            <g key={key} class={`edge ${kind}`}>
              <path d={path} />
              <path class="head" d={head} />
            </g>
          ))}
          {nodes.map((node) => (
            <Node key={node.id} {...{ session, node, graph, drawn }} isSelected={node.id === selected} />
          ))}
        </svg>
      </div>
      <Legend kinds={EDGE_KINDS.filter((kind) => drawn.edges.some((edge) => edge.kind === kind))} />
    </>
  );
}

type NodeProps = { session: string; node: GraphNode; graph: PlanGraph; drawn: DrawnGraph; isSelected: boolean };

function Node({ session, node, graph, drawn, isSelected }: NodeProps) {
  const box = drawn.boxes.get(node.id);
  if (!box) return null;
  const { x, y, width, height } = cornerOf(box);
  const { state, head } = headOf(node);
  const content = (
    <>
      <rect rx={6} {...{ x, y, width, height }} />
      <text x={x + NODE.padding} y={y + NODE.padding + NODE.line * 0.75}>
        <tspan class={`state ${state}`}>{`${head} `}</tspan>
        {box.lines.map((line, place) => (
          <tspan key={place} x={x + NODE.padding} dy={NODE.line}>
            {line}
          </tspan>
        ))}
      </text>
    </>
  );
  if (node.kind === 'more') return <g class="node more">{content}</g>;
  return (
    <a
      id={nodeElementId(node.id)}
      class={`node ${node.kind} ${state}`}
      href={node.kind === 'child' ? hrefOf(node.session) : hrefOf(session, 'run', node.id)}
      aria-label={spokenText(node, graph)}
      aria-current={isSelected ? 'true' : undefined}
    >
      {content}
    </a>
  );
}

/** Scrolls a node to the middle, as far as possible. */
const showNode = (node: string | undefined): void =>
  document.getElementById(nodeElementId(node ?? ''))?.scrollIntoView({ block: 'center', inline: 'center' });

const nodeElementId = (id: string): string => `node ${id}`;

/** The text of a node below its head line. */
function nodeText(node: GraphNode): string {
  if (node.kind === 'step') return node.step.description;
  if (node.kind === 'child') return node.session;
  return node.counts.map(([state, count]) => `${count} ${words.value.states[state]}`).join(', ');
}

/** A node's state and its head line, with the state's symbol if `sign`. */
function headOf(node: GraphNode, sign = true): { state: State; head: string } {
  const { states, child, moreParts } = words.value;
  const withSign = (state: State) => (sign ? `${SIGNS[state]} ` : '');
  if (node.kind === 'more') return { state: 'pending', head: moreParts(node.total) };
  if (node.kind === 'child') {
    const standing = sessions.value?.find(({ name }) => name === node.session)?.standing ?? 'none';
    return { state: standing, head: `${withSign(standing)}${child}: ${states[standing]}` };
  }
  const { state, place } = node;
  const { progress } = node.step;
  const done = progress ? ` ${progress.current}/${progress.total}` : '';
  return { state, head: `${place} ${withSign(state)}${states[state]}${done}` };
}

/** The accessible name of a node: its text, and what its lines mean. */
function spokenText(node: GraphNode, { nodes, edges }: PlanGraph): string {
  const { edgeKinds, partOf } = words.value;
  const shown = `${headOf(node, false).head} ${nodeText(node)}`;
  if (node.kind !== 'step') return shown;
  const steps = new Map<string, Step>(nodes.flatMap((one) => (one.kind === 'step' ? [[one.id, one.step]] : [])));
  const { id, parent } = node.step;
  const isOf = (kind: EdgeKind, cause: string, effect: string) =>
    kind === 'rollback' || kind === 'child' ? cause === id : effect === id;
  const facts = edges
    .filter(({ kind, cause, effect }) => isOf(kind, cause, effect))
    .map(({ kind, cause, effect }) => [edgeKinds[kind], cause === id ? effect : cause] as const)
    .map(([name, other]) => `${name}: ${steps.get(other)?.description ?? ''}`.replace(/: $/, ''));
  const group = parent === undefined || node.group === undefined || parent === id ? undefined : steps.get(parent);
  return [shown, group && `${partOf}: ${group.description}`, ...facts].filter(Boolean).join('; ');
}

function Legend({ kinds }: { kinds: readonly EdgeKind[] }) {
  return (
    <ul class="row legend quiet" aria-hidden="true">
      {kinds.map((kind) => (
        <li key={kind}>
          <svg aria-hidden="true" class={`edge ${kind}`} viewBox="0 0 32 8" width="2rem" height="0.5rem">
            <path d="M0 4L26 4" />
            <path class="head" d="M32 4L24 0L24 8Z" />
          </svg>{' '}
          {words.value.edgeKinds[kind]}
        </li>
      ))}
    </ul>
  );
}

const cornerOf = ({ x, y, width, height }: { x: number; y: number; width: number; height: number }) => ({
  ...{ x: x - width / 2, y: y - height / 2, width, height },
});

const DIRECTIONS: Readonly<Record<string, readonly [x: number, y: number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Moves the focus to the nearest node in the direction of an arrow key. */
function moveFocus(event: KeyboardEvent, { boxes }: DrawnGraph): void {
  const [dx, dy] = DIRECTIONS[event.key] ?? [0, 0];
  const from = boxes.get(document.activeElement?.id.replace(nodeElementId(''), '') ?? '');
  if (!from || (dx === 0 && dy === 0) || event.altKey) return;
  event.preventDefault();
  const ahead = [...boxes].flatMap(([id, { x, y }]) => {
    const [along, across] = [(x - from.x) * dx + (y - from.y) * dy, (x - from.x) * dy + (y - from.y) * dx];
    // Nodes straight ahead are preferred to nearer ones off to the side.
    return along > 1 ? [{ id, far: along + 2 * Math.abs(across) }] : [];
  });
  const nodes = ahead.sort((a, b) => a.far - b.far).map(({ id }) => document.getElementById(nodeElementId(id)));
  nodes.find((one) => one !== null)?.focus();
}
