// Words of the tour.

export const tour = {
  label: "Tour of the dashboard",
  start: "Take the tour",
  skip: "Skip the tour",
  back: "Back",
  next: "Next",
  done: "Done",
  progress: (step: number, of: number) => `Step ${step} of ${of}`,
  steps: {
    jobs: {
      title: "All jobs in one list",
      body: "The list shows the training jobs that you may see, and changes as they do. Search and filter it; the address keeps the view, so you can share it.",
    },
    create: {
      title: "Create a job",
      body: "Choose a type of job, then use the form, YAML, or both. The service checks the job as you type, and says whether it could start now.",
    },
    job: {
      title: "A page for each job",
      body: "Choose the name of a job to see its steps, Workers, configuration, metrics and events.",
    },
    failure: {
      title: "Why a job waits or fails",
      body: "The state names the cause. The page of the job has the evidence, what to do about it, and the logs of all Workers, which you can search.",
    },
    help: {
      title: "Where to find help",
      body: "This menu has the tour, the API reference, and a link to give feedback.",
    },
  },
} as const;
