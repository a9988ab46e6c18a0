import { useEffect } from 'preact/hooks';
import type { Plan } from '../../../protocol/session/plan.ts';
import { isConnected } from '../data/api.ts';
import { hasDaemon, hrefOf } from '../data/overview.ts';
import { stepState } from '../data/plan-graph.ts';
import { openSession, readEarlier, transcriptVersion } from '../data/session.ts';
import { lengthOf, planTimes, type StepTimes, type TimeScale, timeScale, WAIT_KINDS } from '../data/timeline.ts';
import { Table, useNow } from '../parts/controls.tsx';
import { StateSign } from '../parts/icons.tsx';
import { FOCUSABLE } from '../parts/markdown.tsx';
import { formatDuration, formatTime, words } from '../text/wording.ts';

/** The plan over time: a bar for each step with its waits, in a table that has the same in words. */
export function PlanTimeline({ session, plan, selected }: { session: string; plan: Plan; selected: string }) {
  const { planViews, step, took, waited, waitKinds, usageColumns, notBegun } = words.value;
  // Subscribes to changes of the transcript, which is changed in place.
  transcriptVersion.value;
  const isWhole = openSession.value?.transcript.first === undefined;
  useEffect(() => {
    if (!isWhole && isConnected.value) void readEarlier(true);
  }, [isWhole, isConnected.value]);
  const times = planTimes(plan, openSession.value?.transcript.events ?? [], hasDaemon.value);
  const now = useNow(times.some(({ tries }) => tries.some(({ to }) => to === undefined)));
  const scale = timeScale(times, now);
  if (!scale) return <p class="quiet">{notBegun}</p>;
  const kinds = WAIT_KINDS.filter((kind) => times.some(({ waits }) => waits.some((one) => one.kind === kind)));
  return (
    <section class="timeline" aria-label={planViews.time} {...FOCUSABLE}>
      <Table
        head={[step, took, waited, usageColumns.calls]}
        numbersFrom={1}
        rows={times.map((one) => ({
          key: one.step.id,
          cells: [
            <StepBar key="bar" {...{ session, plan, scale, now }} times={one} isSelected={one.step.id === selected} />,
            one.tries.length > 0 && formatDuration(lengthOf(one.tries, now)),
            <Waits key="waits" times={one} now={now} />,
            one.calls > 0 && one.calls,
          ],
        }))}
      />
      <p class="axis quiet">
        <time dateTime={new Date(scale.from).toISOString()}>{formatTime(new Date(scale.from).toISOString())}</time>
        <time dateTime={new Date(scale.to).toISOString()}>{formatTime(new Date(scale.to).toISOString())}</time>
      </p>
      <ul class="row legend quiet" aria-hidden="true">
        {kinds.map((kind) => (
          <li key={kind}>
            <svg class="bars" aria-hidden="true" viewBox="0 0 32 10" width="2rem" height="0.6rem">
              <rect class={`wait ${kind}`} y={SHAPES[kind].y} width="32" height={SHAPES[kind].height} />
            </svg>{' '}
            {waitKinds[kind]}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Kinds of waits differ by height and position in the bar, not by colour alone. */
const SHAPES = {
  approval: { y: 0, height: 10 },
  person: { y: 5, height: 5 },
  paused: { y: 4, height: 2 },
  down: { y: 9, height: 1 },
};
const BAR_WIDTH = 1000;

type BarProps = { session: string; plan: Plan; scale: TimeScale; now: number; times: StepTimes; isSelected: boolean };

function StepBar({ session, plan, scale, now, times: { step, place, tries, waits }, isSelected }: BarProps) {
  const state = stepState(plan, step);
  const placed = ({ from, to = now }: { from: number; to: number | undefined }) => {
    const x = BAR_WIDTH * scale.at(from);
    return { x, width: Math.max(3, BAR_WIDTH * scale.at(to) - x) };
  };
  return (
    <>
      <span class="quiet">{place}</span> <StateSign state={state} />{' '}
      <a href={hrefOf(session, 'run', step.id)} aria-current={isSelected ? 'true' : undefined}>
        {step.description}
      </a>
      <svg class="bars" aria-hidden="true" viewBox={`0 0 ${BAR_WIDTH} 10`} preserveAspectRatio="none">
        <rect class="track" y="9" width={BAR_WIDTH} height="1" />
        {tries.map((one) => (
          <rect key={one.from} class={`try ${state}`} height="10" {...placed(one)} />
        ))}
        {waits.map((one) => (
          <g key={`${one.kind} ${one.from}`}>
            <rect class="gap" height="10" {...placed(one)} />
            <rect class={`wait ${one.kind}`} {...SHAPES[one.kind]} {...placed(one)} />
          </g>
        ))}
      </svg>
    </>
  );
}

/** What a step waited for, and for how long. */
function Waits({ times, now }: { times: StepTimes; now: number }) {
  return (
    <>
      {WAIT_KINDS.map((kind) => {
        const spans = times.waits.filter((one) => one.kind === kind);
        if (spans.length === 0) return null;
        return <div key={kind}>{`${words.value.waitKinds[kind]} ${formatDuration(lengthOf(spans, now))}`}</div>;
      })}
    </>
  );
}
