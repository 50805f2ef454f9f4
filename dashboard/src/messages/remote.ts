// Words that only another dashboard shows.

export const remote = {
  navigation: "Distributed training",
} as const;
