/** A valid skill: its name, and its author's description of what it is good for. */
export type Skill = { name: string; description: string };
/** `folder`: where its `SKILL.md` is. */
export type FoundSkill = Skill & { folder: string };

/** What people and the agent wrote down for later runs, as the model receives it. */
export type Notes = {
  /** Text of the `MEMORY.md` of the workspace and of the session; '' if there is none or it is not to be used. */
  memory: { workspace: string; session: string };
  /** Text of `USER.md`; '' if there is none or it is not to be shown. */
  user: string;
  /** What a file in `work/` says about the work there; undefined if there is none. */
  project?: { file: string; text: string } | undefined;
  skills: readonly Skill[];
  /** Names of tools that are not offered, because settings disable them or they would have nothing to do. */
  withheldTools: readonly string[];
};

export const NO_NOTES: Notes = { memory: { workspace: '', session: '' }, user: '', skills: [], withheldTools: [] };

/** A plan or a reply of some session, or something said in this one, as a text to search. */
export type SearchDocument = {
  session: string;
  is: 'plan' | 'reply' | 'said';
  /** ISO 8601, UTC. */
  at: string;
  /** Id of the plan it is, or belongs to. */
  plan?: string | undefined;
  /** For a plan: the request. */
  goal?: string | undefined;
  text: string;
  archived: boolean;
  /** For a plan: it is being worked on. */
  running?: boolean | undefined;
};

/** The search result for one plan and its replies. */
export type PlanSearchResult = {
  session: string;
  at: string;
  goal: string | undefined;
  archived: boolean;
  /** The best matching passages, best first, shortened. */
  passages: string[];
};
