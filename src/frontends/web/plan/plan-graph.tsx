import { useEffect } from 'preact/hooks';
import { legible } from '../../../base/strings.ts';
import type { Plan, Step } from '../../../protocol/session/plan.ts';
import { hrefOf, labelOf, sessions } from '../data/overview.ts';
import { childNodeId, type GraphEdge, planGraph, stepState } from '../data/plan-graph.ts';
import { type State, StateLabel } from '../parts/icons.tsx';
import { words } from '../text/wording.ts';

const NODE = { width: 200, height: 88, padding: 8 };
const GAP = { x: 16, y: 36 };
/** Length of an arrow head, and half its width. */
const HEAD = { length: 8, half: 4 };

type Place = { x: number; y: number };
type GraphProps = { session: string; plan: Plan; selected: string };

/**
 * The plan as a graph from top to bottom. Steps are links, with lines from a step to those that wait for it. The
 * accessible name of a step says what its lines show.
 */
export function PlanGraphView({ session, plan, selected }: GraphProps) {
  const current = plan.steps.find(({ status }) => status === 'running') ?? plan.steps[0];
  const { steps, edges, rows } = planGraph(plan, selected || (current?.id ?? ''));
  useEffect(() => {
    document.getElementById(nodeElementId(selected || (current?.id ?? '')))?.scrollIntoView({ block: 'center' });
  }, [selected]);
  const widest = Math.max(1, ...rows.map((row) => row.length));
  const width = widest * (NODE.width + GAP.x) + GAP.x;
  const height = rows.length * (NODE.height + GAP.y);
  const places = new Map(
    rows.flatMap((row, number) => {
      const left = (width - row.length * (NODE.width + GAP.x) + GAP.x) / 2;
      return row.map((id, place): [string, Place] => [
        id,
        { x: left + place * (NODE.width + GAP.x), y: number * (NODE.height + GAP.y) + GAP.y / 2 },
      ]);
    }),
  );
  return (
    <>
      {steps.length < plan.steps.length && (
        <p class="quiet">{words.value.partOfGraph(steps.length, plan.steps.length)}</p>
      )}
      <div class="graph">
        {/* biome-ignore lint/a11y/useSemanticElements: a fieldset cannot contain a drawing. */}
        <svg
          role="group"
          aria-label={words.value.planViews.graph}
          viewBox={`0 0 ${width} ${height}`}
          width={`${width / 16}rem`}
          height={`${height / 16}rem`}
        >
          {edges.map((edge) => (
            <Line key={`${edge.cause} ${edge.effect} ${edge.kind}`} {...edge} places={places} />
          ))}
          {steps.map((step) => {
            const node = { session, plan, step, edges, isSelected: step.id === selected };
            return <StepNode key={step.id} {...node} at={places.get(step.id)} />;
          })}
          {steps.map(({ id, child }) => child && <ChildNode key={id} child={child} at={places.get(childNodeId(id))} />)}
        </svg>
      </div>
    </>
  );
}

const nodeElementId = (id: string): string => `node ${id}`;

/** A curve from the bottom of one node to the top of another; past the nodes of the rows between them. */
function Line({ kind, cause, effect, places }: GraphEdge & { places: ReadonlyMap<string, Place> }) {
  const [from, to] = [places.get(cause), places.get(effect)];
  if (!from || !to || from === to) return null;
  const middle = NODE.width / 2;
  const [x1, y1, x2, y2] = [from.x + middle, from.y + NODE.height, to.x + middle, to.y - HEAD.length];
  const isFar = y2 - y1 > GAP.y;
  const aside = isFar && Math.abs(x2 - x1) < middle ? (x1 > NODE.width * 1.5 ? 1 : -1) * NODE.width * 0.8 : 0;
  const bend = Math.max(GAP.y, Math.abs(y2 - y1) / 3);
  return (
    <g class={`edge ${kind}`}>
      <title>{words.value.edgeKinds[kind]}</title>
      <path d={`M${x1} ${y1}C${x1 + aside} ${y1 + bend} ${x2 + aside} ${y2 - bend} ${x2} ${y2}`} />
      <path class="head" d={`M${x2} ${to.y}l${-HEAD.half} ${-HEAD.length}h${2 * HEAD.half}Z`} />
    </g>
  );
}

type NodeProps = { at: Place | undefined; kind: string; state: State; place?: number; word: string; text: string };
type LinkProps = { id?: string; href: string; label: string; isSelected?: boolean };

function Node({ at, kind, state, place, word, text, id, href, label, isSelected = false }: NodeProps & LinkProps) {
  if (!at) return null;
  const { width, height, padding } = NODE;
  return (
    <a id={id} href={href} class={`node ${kind} ${state}`} aria-label={label} aria-current={isSelected || undefined}>
      <rect rx={6} {...at} width={width} height={height} />
      <foreignObject x={at.x + padding} y={at.y} width={width - 2 * padding} height={height}>
        <div class="node-text">
          {place} <StateLabel state={state} text={word} />
          <br />
          {text}
        </div>
      </foreignObject>
    </a>
  );
}

type StepNodeProps = Omit<GraphProps, 'selected'> &
  Pick<NodeProps, 'at'> & { step: Step; edges: readonly GraphEdge[]; isSelected: boolean };

function StepNode({ session, plan, step, edges, ...node }: StepNodeProps) {
  const state = stepState(plan, step);
  const place = plan.steps.indexOf(step) + 1;
  const done = step.progress ? ` ${step.progress.current}/${step.progress.total}` : '';
  const word = `${words.value.states[state]}${done}`;
  return (
    <Node
      {...node}
      {...{ state, place, word, id: nodeElementId(step.id), kind: 'step', text: legible(step.description) }}
      href={hrefOf(session, 'run', step.id)}
      label={[`${place} ${word} ${step.description}`, ...relationsOf(step, plan, edges)].join('; ')}
    />
  );
}

function ChildNode({ child, at }: { child: string; at: Place | undefined }) {
  const state = sessions.value?.find(({ name }) => name === child)?.standing ?? 'none';
  const word = `${words.value.child}: ${words.value.states[state]}`;
  const text = labelOf(child);
  return <Node {...{ at, state, word, text }} kind="child" label={`${word} ${text}`} href={hrefOf(child)} />;
}

/** What the lines of a step mean, in words. */
function relationsOf({ id }: Step, plan: Plan, edges: readonly GraphEdge[]): string[] {
  const isOf = ({ kind, cause, effect }: GraphEdge) =>
    (kind === 'rollback' || kind === 'child' ? cause : effect) === id;
  return edges.filter(isOf).map(({ kind, cause, effect }) => {
    const other = kind === 'rollback' || kind === 'child' ? effect : cause;
    const text = plan.steps.find((one) => one.id === other)?.description;
    return [words.value.edgeKinds[kind], ...(text === undefined ? [] : [text])].join(': ');
  });
}
