/** A folder under `skills/` that holds: its name, and what it is good for in the words of its author. */
export type Skill = { name: string; description: string };

/** What people and the agent wrote down for later runs, as it is told to the model. */
export type Notes = {
  /** Text of the `MEMORY.md` of the workspace and of the session; '' where there is none or it is not to be told. */
  memory: { workspace: string; session: string };
  skills: readonly Skill[];
  /** Names of tools that are not offered, since settings say so or there is nothing for them to do. */
  withheldTools: readonly string[];
};

export const NO_NOTES: Notes = { memory: { workspace: '', session: '' }, skills: [], withheldTools: [] };

/** A plan or a reply of some session, as words to search in. */
export type SearchDocument = {
  session: string;
  is: 'plan' | 'reply';
  /** ISO 8601, UTC. */
  at: string;
  /** Id of the plan it is, or belongs to. */
  plan?: string | undefined;
  /** Of a plan: what was asked for. */
  goal?: string | undefined;
  text: string;
  archived: boolean;
  /** Of a plan: it is being worked on. */
  running?: boolean | undefined;
};

/** What a search found of one plan and its replies. */
export type PlanSearchResult = {
  session: string;
  at: string;
  goal: string | undefined;
  archived: boolean;
  /** The places that fit best, best first, clipped. */
  passages: string[];
};
